"""Names spelt alike in both languages. None ends in a sibilant, so the German genitive is always -s."""

from __future__ import annotations

_WOMEN = """
    Ada Adela Agatha Alexandra Alina Amalia Amelie Anastasia Andrea Angela Anita Anja Anna Annika Antonia Astrid
    Aurelia Barbara Bella Berta Bettina Bianca Birgit Britta Carina Carla Carmen Carolin Cecilia Charlotte Christina
    Clara Claudia Cordula Corinna Cornelia Daniela Daria Diana Dora Edith Elena Elisa Ella Elsa Emilia Emily Emma
    Erika Esther Eva Evelyn Felicia Fiona Flora Franka Frida Gerda Gloria Greta Gudrun Hanna Heidi Heike Helena
    Helga Hilda Ida Ilona Ina Inge Irina Isabella Jana Janina Jasmin Jenny Johanna Josefina Judith Julia Juliana
    Karin Karla Katharina Katja Kerstin Kira Lara Laura Lea Lena Leonie Liane Lilly Lina Linda Lisa Lola Lotte Lucia
    Luisa Magda Maja Manuela Mara Margot Maria Marina Marion Marlene Marta Mathilda Melanie Melina Mia Michaela Mila
    Milena Mina Miriam Mona Monika Nadia Natalie Nele Nicole Nina Nora Olga Olivia Paula Petra Pia Ramona Rebecca
    Regina Renate Rita Romy Rosa Sabrina Sandra Sara Selma Sibylle Silvia Simone Sofia Sonja Stella Susanna Svenja
    Tamara Tanja Tatjana Thea Tina Ulla Ursula Valentina Vanessa Vera Veronika Victoria Viola Wanda Wilma
"""

_MEN = """
    Adam Adrian Albert Alexander Alfred Andrej Anton Armin Arno Arnold Arthur August Axel Ben Benedikt Benjamin
    Bernd Bernhard Bert Bruno Carl Christian Christoph Conrad Daniel David Dirk Edgar Eduard Edwin Egon Elmar Emil
    Erik Ernst Erwin Eugen Fabian Ferdinand Finn Florian Frank Fred Friedrich Georg Gerald Gerd Gregor Guido Gustav
    Harald Harry Hartmut Heiko Heinrich Helmut Henrik Henry Herbert Hermann Holger Horst Hubert Hugo Igor Ingo Ivan
    Jakob Jan Jannik Joachim Jochen Johann Jonathan Josef Julian Karl Kevin Kilian Konrad Konstantin Kurt Leo Leon
    Leonard Leopold Ludwig Manfred Manuel Marcel Marco Mario Mark Martin Marvin Michael Michel Mirko Nico Norbert
    Olaf Oliver Oscar Oskar Otto Pascal Patrick Paul Peter Philipp Rainer Ralf Raphael Reinhard Richard Robert Robin
    Roland Rolf Roman Rudolf Samuel Sebastian Siegfried Simon Stefan Steffen Sven Theo Theodor Thorsten Till Tim
    Timo Tobi Tom Torben Udo Ulrich Uwe Valentin Viktor Vincent Volker Walter Werner Wilhelm Willi Wolfgang
"""

_CITIES = """
    Amsterdam Augsburg Barcelona Basel Berlin Bern Bielefeld Bochum Bonn Boston Bremen Budapest Chemnitz Chicago
    Dortmund Dresden Dublin Erfurt Frankfurt Freiburg Hamburg Heidelberg Helsinki Innsbruck Jena Kiel Leipzig London
    Madrid Magdeburg Mainz Mannheim Oslo Oxford Paris Potsdam Regensburg Rostock Salzburg Stockholm Stuttgart
    Toronto
"""

WOMEN, MEN, CITIES = (tuple(names.split()) for names in (_WOMEN, _MEN, _CITIES))
